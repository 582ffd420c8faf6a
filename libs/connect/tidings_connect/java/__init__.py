"""What configurations of Java's programs take for granted: properties files, regular expressions, date formats, hash codes."""
