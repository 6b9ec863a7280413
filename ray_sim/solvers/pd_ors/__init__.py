"""PD-ORS: prices, and the best schedule of one job at given prices. Nothing here knows of an engine.

Source: Yu, Liu, Wu, Ji, Bentley, Toward Efficient Online Scheduling for Distributed Machine Learning Systems,
IEEE TNSE 2021 (arXiv 2108.02917).
"""
