"""Does the doctor find the mistakes, and only those: snippets, fixes, articles, public code, speed."""
