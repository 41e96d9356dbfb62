//go:build tools

// Package tools pins what is built here, so that go.sum covers it.
package tools

import _ "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
