"""gRPC transport between daemon, agents and clients.

v1                     generated messages and types
services               stubs and servicers, made from the descriptors in `v1`
packing                several messages of the agents' link in one
status                 Koala's errors as gRPC statuses, and back
interceptors           shared parts of a server's interceptors; malformed messages
connection_limits      connections that have not authenticated, and back-off of attempts to connect
connection_diagnosis   why a connection failed; `listen_ports`: why a port cannot be listened on
grpc_variables         variables of the environment that it reads, set by main programs
grpc_shutdown          clean end of servers and loops; what gRPC leaves behind in them
"""
