int hedgerow_placeholder;
