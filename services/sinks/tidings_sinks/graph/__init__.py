"""The sink for Neo4j: nodes and relationships."""
