"""Services of koala.proto: stubs, servicers, and how a server gets one."""

from koala.common.wire.services import adder, servicer, stub
from koala.common.wire.v1 import koala_pb2

_Koala = koala_pb2.DESCRIPTOR.services_by_name["Koala"]
KoalaStub = stub(_Koala)
KoalaServicer = servicer(_Koala)
add_KoalaServicer_to_server = adder(_Koala)
