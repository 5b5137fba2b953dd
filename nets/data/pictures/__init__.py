"""Pixels of encoded pictures, as OpenCV's imread gives them.

gif          GIF, opened by Pillow, with the first frame as OpenCV shows it
jpeg         JPEG, decoded by simplejpeg, which is libjpeg-turbo with the settings of OpenCV
kinds        The formats of pictures, recognised by their first bytes, and the limits of their size
netpbm       PBM, PGM and PPM: bits, grey and colour in plain text or bytes
notices      Notices about single pictures that were read otherwise than a user may expect, such as
             the first frame of an animation
orientation  The orientation that a camera writes into its photographs: EXIF's tag 0x0112
rasters      BMP, GIF, PNG, TIFF and WebP, decoded by Pillow, with the pixels of OpenCV
segments     The segments of a JPEG file before its first scan, such as the one with EXIF
tiff         TIFF, opened by Pillow, with the pixels that libtiff gives to OpenCV
resizing     Bilinear resizing of images, with the pixels of OpenCV's INTER_LINEAR
libtiff      The messages of libtiff, which Pillow calls
pillow_rows  Pixels of a picture of Pillow as one array, made some rows at a time
tiff_layout  The places of a TIFF's pixels in its file

`nets.data.decoding.decode` calls them: it is the one function that decodes a picture.
"""
