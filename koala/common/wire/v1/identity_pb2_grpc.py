"""Services of identity.proto: stubs, servicers, and how a server gets one."""

from koala.common.wire.services import adder, servicer, stub
from koala.common.wire.v1 import identity_pb2

_Enrolment = identity_pb2.DESCRIPTOR.services_by_name["Enrolment"]
EnrolmentStub = stub(_Enrolment)
EnrolmentServicer = servicer(_Enrolment)
add_EnrolmentServicer_to_server = adder(_Enrolment)
