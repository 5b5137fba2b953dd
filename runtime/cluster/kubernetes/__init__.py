"""The connection between a run and a Kubernetes cluster.

objects  Machines as objects of Kubernetes
pods     The state of a pod in words, from the output of `kubectl get pods -o json`
kubectl  The user's kubectl, with the user's context, credentials and plugins
"""
