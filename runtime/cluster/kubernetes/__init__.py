"""What a run says to a Kubernetes cluster, and hears of it.

objects  Machines as objects of Kubernetes: plain data, nothing is asked or started here
pods     The state of a pod, as `kubectl get pods -o json` has it, in words
kubectl  The user's kubectl: their context, their credentials, their plugins
"""
