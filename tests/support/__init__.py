"""What tests share: real servers, a run to start them on, and builders."""
