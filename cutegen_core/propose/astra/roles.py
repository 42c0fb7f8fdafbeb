"""The roles of Astra, in the order in which it asks them."""

from cutegen_core.records.event import Role

ROLES = (Role.TESTING, Role.PROFILING, Role.PLANNING, Role.CODING)
