"""The databases that the JDBC sink speaks to by a class of their own, and any other through SQLAlchemy."""
