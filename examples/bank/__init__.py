"""A bank that goes from one version of its code to the next while it runs.

    v1.py        accounts, deposits and transfers
    v2.py        takes a fee for each transfer, and goes on with the accounts of version 1
    teller.py    gives orders, each of which is executed once

A node has the code of both versions:

    [service]
    versions = { "1" = "examples.bank.v1:Bank", "2" = "examples.bank.v2:Bank" }

The cluster begins with version 1. `ordo cluster upgrade 2` has all members go over at one record of the log: whoever
executes the log later does so with version 1 up to that record, and with version 2 from there on (docs/UPGRADES.md).
"""
