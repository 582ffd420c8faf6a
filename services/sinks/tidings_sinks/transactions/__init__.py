"""Whole source transactions: puts the rows of Debezium's topics and the markers of its transaction topic together."""
