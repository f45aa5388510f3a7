"""Messages to the methods that take them. See dispatch.pxd."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from ordo.service_api.messages.blocks cimport EMPTY_ROWS_MAX
from ordo.service_api.messages.codec cimport MessageCodec, MessageSet

from types import NoneType

from ordo.runtime.errors import MessageError, Reject
from ordo.service_api.messages.codec import codec_of, encode


cdef class Dispatch:
    def __init__(self, messages: MessageSet, handlers: dict) -> None:
        self._set = messages
        self._handlers = {}
        for template_id, codec in messages.codecs.items():
            handler = self._handlers[template_id] = Handler.__new__(Handler)
            set_up(handler, codec, handlers.get((<MessageCodec>codec).of_class))

    cdef object _call(self, object service, object session, object message, object header, Handler handler):
        """Have the method that takes a message execute it, and return its answer as bytes, or None."""
        if handler.takes_header:
            answer = handler.method(service, session, message, header)
        else:
            answer = handler.method(service, session, message)
        if handler.answer is not None:
            if type(answer) is handler.answer.of_class:
                return handler.answer._written(answer, False)
            if type(answer) not in handler.answers:
                text = describe_wrong_answer(type(service), handler.method, message, answer, handler.answers)
                raise MessageError(text)
        return answer if answer is None or PyBytes_Check(answer) else encode(answer)


    cdef object execute(self, object service, object session, int64_t timestamp, const uint8_t* data, Py_ssize_t length,
                        object header):
        """Have a message executed, and return its answer as bytes, or None."""
        cdef Handler handler
        cdef bint has_doubt = False
        try:
            handler = self._set.find(self._handlers, data, length)
            message = handler.codec._decode_at(data, length, EMPTY_ROWS_MAX, &has_doubt)
        except MessageError as error:
            payload = PyBytes_FromStringAndSize(<const char*>data, length)
            return service.untyped_message(session, timestamp, payload, header, error)
        if handler.method is None:
            name = type(message).__name__
            raise Reject(f"{type(service).__name__} does not take {name}, which is an answer")
        if has_doubt and handler.answer is not None:
            check_values(handler.codec, message)
        return self._call(service, session, message, header, handler)


def dispatch(self, session, timestamp, payload, header):
    """Decode a message, and call the method that takes it."""
    cdef bytes data = payload if PyBytes_CheckExact(payload) else bytes(memoryview(payload))
    cdef Dispatch plan = self.__ordo_dispatch__
    return plan.execute(
        self, session, timestamp, <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), header
    )


cpdef Dispatch dispatch_of(object service):
    """Return what executes the messages of a service; None if it takes none, or by another `on_session_message`.

    That of another service, which executes them in its place, is another one, too.
    """
    method = getattr(service, "on_session_message", None)
    if getattr(method, "__func__", None) is not dispatch or method.__self__ is not service:
        return None
    return getattr(service, "__ordo_dispatch__", None)


cdef int set_up(Handler handler, MessageCodec codec, tuple found) except -1:
    """Note what a service says of a message: method, whether it takes the header, what must answer; None: nothing."""
    handler.codec = codec
    if found is not None:
        handler.method, handler.takes_header, handler.answers = found
        if handler.answers:
            handler.answer = codec_of(handler.answers[0])
    return 0


cdef int check_values(MessageCodec codec, object message) except -1:
    """Refuse a request that could not have been written, so that the service can write its values into an answer.

    For a Request alone: what earlier releases executed of other messages has to be executed again alike.
    """
    try:
        codec.check(message)
    except MessageError as error:
        raise Reject(error.message) from error
    return 0


def describe_wrong_answer(owner: type, handler: object, message: object, answer: object, allowed: tuple) -> str:
    """Return what is wrong with an answer of a class that its request does not name."""
    method, taken = f"{owner.__name__}.{handler.__name__}", type(message).__name__
    return (
        f"{method} returned {names_of([type(answer)])}, but {taken} is answered by {names_of(allowed)}: return that"
    )


def names_of(types: object) -> str:
    """Return the names of types, as a union of them is written."""
    return " | ".join("None" if one is NoneType else getattr(one, "__name__", str(one)) for one in types)
