"""Memory that processes of one host share.

arena    arrays written once by their producer, read in place by others
mapping  a file mapped far from this process's code
"""
