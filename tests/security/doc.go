// Package security tests the permissions of `turnlog permissions` on a server that grants them
// to users.
//
// For each role, a user with only that role's permissions does everything that its code does,
// and nothing may be forbidden. Then each role tries what it must not do, and the server has to
// forbid it. Both run with both forms of the server's subjects for acknowledgments.
package security
