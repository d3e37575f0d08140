"""Who is a member, and how that changes while agents run.

signed_epoch.py   the terms of an epoch as one file, signed by the authority
drafts.py         the next epoch, where the fleet's files are kept: add, remove, roll out
adoption.py       which epoch an agent follows, and when it adopts a later one
leaving.py        how a running agent is asked to leave, and what it answers
"""
