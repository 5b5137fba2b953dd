"""What a run says to a Kubernetes cluster, and hears of it.

objects  machines as a JobSet and a Secret: plain data
pods     the states of pods, in words
kubectl  the user's kubectl, with their context and credentials
"""
