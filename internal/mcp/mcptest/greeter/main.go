// Command greeter is an MCP server for tests, on its standard input and output.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/mcp/mcptest"
)

func main() {
	if err := mcptest.Greeter(os.Getenv("GREETING")).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
