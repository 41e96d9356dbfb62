//go:build tools

// Package tools pins what is built here, so that go.sum covers it.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
