"""Compiled kernels: a few short C files, and the only Python code that passes addresses to them.

Each module beside a C file holds functions of arrays. They return ``None`` if the library cannot do the work. Then
their callers do the same in numpy, which is slower. `localrank.native.library` opens the library.

The library is one small file, built when the package is installed; there is nothing to warm up and no cache. The C uses
neither contraction nor reassociation and sums in a fixed number of lanes, so that every compiler and every processor of
a family gives the same bits. It holds no state: any thread may call it, and other threads run meanwhile.
"""
