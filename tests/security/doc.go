// Package security holds what the permissions of `turnlog permissions` are held
// against: a server that gives them to users, and users that try.
//
// The one idea: for each role all that its code does is done by a user that has only
// that role's permissions, and nothing may be forbidden; then each role tries what it
// must not be able to do, and the server has to forbid it. Both are run with both forms
// of the server's subjects for acknowledgements.
//
// It owns the servers that it starts. There is nothing here to import.
package security
