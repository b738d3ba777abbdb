"""The paper itself; every theme adds its entries to it."""

from modgap.reproduce.entry import Paper

PAPER = Paper(
    "liang2022",
    "Mind the Gap: Understanding the Modality Gap in Multi-modal Contrastive Representation "
    "Learning (Liang, Zhang, Kwon, Yeung and Zou, NeurIPS 2022)",
)
