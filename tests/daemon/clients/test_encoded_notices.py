"""Notices as encoded messages: what a client decodes is what was announced."""

from koala.common.wire.v1 import koala_pb2 as pb
from koala.daemon.clients.watch_streams import encoded_messages
from koala.daemon.storage.records import Notice

NOTICES = [
    Notice(number=7, at=1.5, job="j1", phase="Placing", text="submitted"),
    Notice(number=8, at=2.5, site="delft", text="connected"),
    Notice(number=9, at=0.0),
]


def test_each_notice_alone_and_all_in_one_message_are_decoded_as_they_were() -> None:
    each = [decoded(data) for data in encoded_messages(NOTICES, in_lots=False)]
    assert [plain(one) for one in each] == NOTICES
    assert all(not one.more for one in each)
    (lot,) = [decoded(data) for data in encoded_messages(NOTICES, in_lots=True)]
    assert [plain(one) for one in (lot, *lot.more)] == NOTICES
    assert encoded_messages([], in_lots=True) == encoded_messages([], in_lots=False) == []


def decoded(data: bytes) -> pb.Notice:
    return pb.Notice.FromString(data)


def plain(one: pb.Notice) -> Notice:
    return Notice(
        number=one.number, at=one.at, job=one.job, site=one.site, phase=one.phase, text=one.text
    )
