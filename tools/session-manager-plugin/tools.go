//go:build tools

// Package tools pins what is built here, so that go.sum covers it.
package tools

import _ "github.com/aws/session-manager-plugin/src/sessionmanagerplugin-main"
