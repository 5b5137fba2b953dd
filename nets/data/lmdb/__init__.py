"""Caffe's LMDB data sets: a source that reads them, and a writer.

lmdb_source  Caffe's LMDB data sets: Datum records, read by index from a mapped file
datum        Conversion between a Datum (an image and its label, as Caffe's databases store them)
             and an array
mdb          Reader of an LMDB database file (`data.mdb`) that works without the LMDB library
writers      Writer of LMDB databases: Datum records under the keys that Caffe's tools use
"""
