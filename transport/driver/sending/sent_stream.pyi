from ordo.transport.driver.frames.pointers import Worked
from ordo.transport.driver.sending.send_endpoint import SendEndpoint
from ordo.transport.streams.logbuffer import LogBuffers

class SentStream(Worked):
    log: LogBuffers
    endpoint: SendEndpoint
    session_id: int
    stream_id: int
    mtu: int
    sender_position: int
