"""Loads of tenants: the rows of many databases, read together and committed once for each schema
version.

What belongs here: how tenants are read and proved. What doesn't: which of them are to be read
(`mirrorlake.operations.tenants.sync`), and one table of one database
(`mirrorlake.load.protocol.protocol`).
"""
