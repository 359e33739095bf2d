"""Students: classifiers trained on public points and released labels, which costs no further privacy."""

from mechanisms.students.network import NetworkStudent, Student

__all__ = ["NetworkStudent", "Student"]
