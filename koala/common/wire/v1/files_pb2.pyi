from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetRequest(_message.Message):
    __slots__ = ("name", "token", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    offset: int
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("data", "checksum", "start")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    checksum: str
    start: PutStart
    def __init__(self, data: _Optional[bytes] = ..., checksum: _Optional[str] = ..., start: _Optional[_Union[PutStart, _Mapping]] = ...) -> None: ...

class PutStart(_message.Message):
    __slots__ = ("name", "token", "size_bytes", "label")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    size_bytes: int
    label: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., size_bytes: _Optional[int] = ..., label: _Optional[str] = ...) -> None: ...

class PutDown(_message.Message):
    __slots__ = ("offset", "is_done")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    offset: int
    is_done: bool
    def __init__(self, offset: _Optional[int] = ..., is_done: _Optional[bool] = ...) -> None: ...
