"""Files as people have them -> passages to translate -> the same files again."""
