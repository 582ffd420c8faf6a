"""``tidings doctor``: looks at a real surrounding, before the start and after, and changes nothing.

What capture itself checks when a connector is stored or started is asked of capture's own modules; here is what nobody
refuses, and what goes wrong only later.
"""
