"""Networks at the papers' full size: random ones on photos and noise, and ResNet-18 on CIFAR-10.

``python -m modgap.reproduce.networks`` runs them, on a GPU if there is one.
"""
