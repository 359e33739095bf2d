"""Use this accountant where a budget already lives: one module for each peer, imported only when it is asked for.

``accountant.interop.dp_accounting``, ``.opacus``, ``.flower`` and ``.opendp`` each need the package that they speak to:
``pip install 'knn-accountant[NAME]'``. Nothing here is imported by ``import accountant``.
"""
