"""Authentication and authorization: certificate authority, enrolment, roles, audit.

interceptor             authenticate and authorize every call, write the audit log, and end streams
                        whose caller's credentials are no longer valid
access_rules            the access rule of each call; the current caller
certificate_authority   the daemon's key, and the certificates that it signs
credential_store        sites and users, and the check of their tokens and certificates
enrolment_service       exchange a join token for a certificate; add and revoke sites and users
groups                  groups of users, and limits as administrators state them
local_provisioning      certificates for sites that run on the daemon's machine
audit                   one line for each call that changes something or is refused
"""
