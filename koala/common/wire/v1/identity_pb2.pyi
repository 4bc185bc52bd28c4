from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class WhereRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WhereReply(_message.Message):
    __slots__ = ("port", "now")
    PORT_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    port: int
    now: float
    def __init__(self, port: _Optional[int] = ..., now: _Optional[float] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("site", "secret", "request")
    SITE_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    site: str
    secret: str
    request: str
    def __init__(self, site: _Optional[str] = ..., secret: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: str
    def __init__(self, request: _Optional[str] = ...) -> None: ...

class Issued(_message.Message):
    __slots__ = ("certificate", "authority")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    authority: str
    def __init__(self, certificate: _Optional[str] = ..., authority: _Optional[str] = ...) -> None: ...
