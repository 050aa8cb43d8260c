"""How well int8 training does beside its fp32 shadow: the runs, and the table made of them.

Every run is one file, keyed by all that decides its result, so that a table can be stopped, gone
on with, and extended. Needs the reference data, which are not part of this project.
"""
