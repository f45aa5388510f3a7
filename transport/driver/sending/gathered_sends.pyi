from ordo.transport.driver.frames.system_counters import SystemCounters

class GatheredSends:
    def __init__(self, system: SystemCounters) -> None: ...
