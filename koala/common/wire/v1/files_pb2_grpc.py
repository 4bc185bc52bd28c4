"""Services of files.proto: stubs, servicers, and how a server gets one."""

from koala.common.wire.services import adder, servicer, stub
from koala.common.wire.v1 import files_pb2

_Files = files_pb2.DESCRIPTOR.services_by_name["Files"]
FilesStub = stub(_Files)
FilesServicer = servicer(_Files)
add_FilesServicer_to_server = adder(_Files)

_Relay = files_pb2.DESCRIPTOR.services_by_name["Relay"]
RelayStub = stub(_Relay)
RelayServicer = servicer(_Relay)
add_RelayServicer_to_server = adder(_Relay)
