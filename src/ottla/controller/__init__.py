"""The controller: decides about changes of the metadata, and commits them through the quorum.

`port` is what other packages call, `driver` serves it in this process, and `runtime` commits the decisions. The
folders contain the decisions, by subject. `tasks` has the periodic ones.
"""
