"""Services of link.proto: stubs, servicers, and how a server gets one."""

from koala.common.wire.services import adder, servicer, stub
from koala.common.wire.v1 import link_pb2

_AgentLink = link_pb2.DESCRIPTOR.services_by_name["AgentLink"]
AgentLinkStub = stub(_AgentLink)
AgentLinkServicer = servicer(_AgentLink)
add_AgentLinkServicer_to_server = adder(_AgentLink)
