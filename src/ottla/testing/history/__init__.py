"""History of what clients observed, and a checker that finds the anomalies in it.

The clients may be simulated or real. A history needs nothing but unique values, by which records are recognised. The
log itself gives the order of versions, so that checking takes linear time, apart from sorting.
"""

from ottla.testing.history.events import Anomaly, Kind
from ottla.testing.history.history import History

__all__ = ["Anomaly", "History", "Kind"]
