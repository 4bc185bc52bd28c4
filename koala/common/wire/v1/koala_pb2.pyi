from koala.common.wire.v1 import files_pb2 as _files_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HelloRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("protocol", "version", "epoch", "user", "role", "now", "relay", "expires_at")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    epoch: int
    user: str
    role: str
    now: float
    relay: str
    expires_at: float
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., epoch: _Optional[int] = ..., user: _Optional[str] = ..., role: _Optional[str] = ..., now: _Optional[float] = ..., relay: _Optional[str] = ..., expires_at: _Optional[float] = ...) -> None: ...

class Document(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("submissions", "dry_run")
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    submissions: _containers.RepeatedCompositeFieldContainer[Submission]
    dry_run: bool
    def __init__(self, submissions: _Optional[_Iterable[_Union[Submission, _Mapping]]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class Submission(_message.Message):
    __slots__ = ("rsl", "definitions", "key", "reject_if_full", "queue", "after", "group", "staged")
    class DefinitionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class StagedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RSL_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REJECT_IF_FULL_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    rsl: str
    definitions: _containers.ScalarMap[str, str]
    key: str
    reject_if_full: bool
    queue: str
    after: _containers.RepeatedScalarFieldContainer[str]
    group: str
    staged: _containers.ScalarMap[str, str]
    def __init__(self, rsl: _Optional[str] = ..., definitions: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., reject_if_full: _Optional[bool] = ..., queue: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ..., staged: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Submitted]
    def __init__(self, results: _Optional[_Iterable[_Union[Submitted, _Mapping]]] = ...) -> None: ...

class Submitted(_message.Message):
    __slots__ = ("job", "warnings", "is_known", "error", "error_kind", "line", "column", "source", "retry_after_s", "others", "expected", "lack")
    JOB_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    IS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    LACK_FIELD_NUMBER: _ClassVar[int]
    job: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    is_known: bool
    error: str
    error_kind: str
    line: int
    column: int
    source: str
    retry_after_s: float
    others: _containers.RepeatedScalarFieldContainer[str]
    expected: str
    lack: Lack
    def __init__(self, job: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., is_known: _Optional[bool] = ..., error: _Optional[str] = ..., error_kind: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., source: _Optional[str] = ..., retry_after_s: _Optional[float] = ..., others: _Optional[_Iterable[str]] = ..., expected: _Optional[str] = ..., lack: _Optional[_Union[Lack, _Mapping]] = ...) -> None: ...

class Lack(_message.Message):
    __slots__ = ("component", "site", "wanted", "had")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    HAD_FIELD_NUMBER: _ClassVar[int]
    component: str
    site: str
    wanted: int
    had: int
    def __init__(self, component: _Optional[str] = ..., site: _Optional[str] = ..., wanted: _Optional[int] = ..., had: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class ResizeRequest(_message.Message):
    __slots__ = ("job", "total")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    job: str
    total: int
    def __init__(self, job: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Cancelled]
    def __init__(self, results: _Optional[_Iterable[_Union[Cancelled, _Mapping]]] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("job", "phase", "error")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    job: str
    phase: str
    error: str
    def __init__(self, job: _Optional[str] = ..., phase: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("phases", "owner", "last", "past", "after", "page", "jobs")
    PHASES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    PAST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    phases: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    last: int
    past: bool
    after: str
    page: int
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, phases: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ..., last: _Optional[int] = ..., past: _Optional[bool] = ..., after: _Optional[str] = ..., page: _Optional[int] = ..., jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class GridTimelineRequest(_message.Message):
    __slots__ = ("since", "until", "site")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    since: float
    until: float
    site: str
    def __init__(self, since: _Optional[float] = ..., until: _Optional[float] = ..., site: _Optional[str] = ...) -> None: ...

class SiteRequest(_message.Message):
    __slots__ = ("site", "verb")
    SITE_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    site: str
    verb: str
    def __init__(self, site: _Optional[str] = ..., verb: _Optional[str] = ...) -> None: ...

class NameRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AddSiteRequest(_message.Message):
    __slots__ = ("name", "owner", "ttl_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    ttl_s: float
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., ttl_s: _Optional[float] = ...) -> None: ...

class AddUserRequest(_message.Message):
    __slots__ = ("name", "role", "expires_s", "invited_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    INVITED_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    expires_s: float
    invited_s: float
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., expires_s: _Optional[float] = ..., invited_s: _Optional[float] = ...) -> None: ...

class NotificationsRequest(_message.Message):
    __slots__ = ("change", "mail", "webhook", "on", "test")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    MAIL_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    TEST_FIELD_NUMBER: _ClassVar[int]
    change: bool
    mail: str
    webhook: str
    on: _containers.RepeatedScalarFieldContainer[str]
    test: bool
    def __init__(self, change: _Optional[bool] = ..., mail: _Optional[str] = ..., webhook: _Optional[str] = ..., on: _Optional[_Iterable[str]] = ..., test: _Optional[bool] = ...) -> None: ...

class SetUserRequest(_message.Message):
    __slots__ = ("name", "role", "expires_s", "group", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    expires_s: float
    group: str
    limits: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., expires_s: _Optional[float] = ..., group: _Optional[str] = ..., limits: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SetGroupRequest(_message.Message):
    __slots__ = ("name", "add", "remove", "limits")
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    add: _containers.RepeatedScalarFieldContainer[str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    limits: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., add: _Optional[_Iterable[str]] = ..., remove: _Optional[_Iterable[str]] = ..., limits: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AuditRequest(_message.Message):
    __slots__ = ("last",)
    LAST_FIELD_NUMBER: _ClassVar[int]
    last: int
    def __init__(self, last: _Optional[int] = ...) -> None: ...

class AddFileRequest(_message.Message):
    __slots__ = ("name", "site", "checksum", "size_bytes", "is_shared", "path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_SHARED_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    checksum: str
    size_bytes: int
    is_shared: bool
    path: str
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., checksum: _Optional[str] = ..., size_bytes: _Optional[int] = ..., is_shared: _Optional[bool] = ..., path: _Optional[str] = ...) -> None: ...

class AddFileReply(_message.Message):
    __slots__ = ("file", "site", "moved_bytes", "is_done")
    FILE_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    file: str
    site: str
    moved_bytes: int
    is_done: bool
    def __init__(self, file: _Optional[str] = ..., site: _Optional[str] = ..., moved_bytes: _Optional[int] = ..., is_done: _Optional[bool] = ...) -> None: ...

class RemoveFileRequest(_message.Message):
    __slots__ = ("name", "site")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("by", "since", "until", "user", "site")
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    by: str
    since: float
    until: float
    user: str
    site: str
    def __init__(self, by: _Optional[str] = ..., since: _Optional[float] = ..., until: _Optional[float] = ..., user: _Optional[str] = ..., site: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("after", "job", "site", "in_lots")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    IN_LOTS_FIELD_NUMBER: _ClassVar[int]
    after: int
    job: str
    site: str
    in_lots: bool
    def __init__(self, after: _Optional[int] = ..., job: _Optional[str] = ..., site: _Optional[str] = ..., in_lots: _Optional[bool] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("number", "at", "job", "site", "phase", "text", "more")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: float
    job: str
    site: str
    phase: str
    text: str
    more: _containers.RepeatedCompositeFieldContainer[Notice]
    def __init__(self, number: _Optional[int] = ..., at: _Optional[float] = ..., job: _Optional[str] = ..., site: _Optional[str] = ..., phase: _Optional[str] = ..., text: _Optional[str] = ..., more: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "component", "stream", "follow", "process", "after")
    JOB_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    job: str
    component: str
    stream: str
    follow: bool
    process: int
    after: _containers.RepeatedCompositeFieldContainer[LogPlace]
    def __init__(self, job: _Optional[str] = ..., component: _Optional[str] = ..., stream: _Optional[str] = ..., follow: _Optional[bool] = ..., process: _Optional[int] = ..., after: _Optional[_Iterable[_Union[LogPlace, _Mapping]]] = ...) -> None: ...

class LogPlace(_message.Message):
    __slots__ = ("attempt", "component", "process", "stream", "offset")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    component: int
    process: int
    stream: str
    offset: int
    def __init__(self, attempt: _Optional[int] = ..., component: _Optional[int] = ..., process: _Optional[int] = ..., stream: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class LogPart(_message.Message):
    __slots__ = ("component", "label", "process", "stream", "data", "attempt", "offset")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    component: int
    label: str
    process: int
    stream: str
    data: bytes
    attempt: int
    offset: int
    def __init__(self, component: _Optional[int] = ..., label: _Optional[str] = ..., process: _Optional[int] = ..., stream: _Optional[str] = ..., data: _Optional[bytes] = ..., attempt: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class OutputsRequest(_message.Message):
    __slots__ = ("job", "component", "is_names_only")
    JOB_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    IS_NAMES_ONLY_FIELD_NUMBER: _ClassVar[int]
    job: str
    component: str
    is_names_only: bool
    def __init__(self, job: _Optional[str] = ..., component: _Optional[str] = ..., is_names_only: _Optional[bool] = ...) -> None: ...

class OutputPart(_message.Message):
    __slots__ = ("name", "size_bytes", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    data: bytes
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...
