// Package typo finds the word that was probably meant by one that does not exist.
package typo
