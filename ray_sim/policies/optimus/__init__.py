"""Optimus: fitted models of loss and speed, allocation by marginal gains, even placement.

Source: Peng, Bao, Chen, Wu, Guo: Optimus, an Efficient Dynamic Resource Scheduler for Deep Learning Clusters,
EuroSys 2018.
"""
