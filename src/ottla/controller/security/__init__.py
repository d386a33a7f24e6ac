"""Decisions about access: ACL entries, SCRAM users, delegation tokens."""
