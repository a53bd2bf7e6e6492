// Package triages is the suite of the index of failed messages: one set of cases for each database that it works with.
package triages
