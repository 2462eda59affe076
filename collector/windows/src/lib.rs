//! Records a Windows machine into an `.etl` file.
