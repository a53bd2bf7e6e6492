package cli

import "github.com/spf13/cobra"

func (c *command) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Example: `  source <(rehop completion bash)
  rehop completion zsh > "${fpath[1]}/_rehop"
  rehop completion fish | source`,
		Args:      needs("shell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.Out, true)
			case "zsh":
				return root.GenZshCompletion(c.Out)
			case "fish":
				return root.GenFishCompletion(c.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.Out)
			}
			return usage("there is no script for the shell %q; the shells are bash, zsh, fish and powershell", args[0])
		},
	}
}
