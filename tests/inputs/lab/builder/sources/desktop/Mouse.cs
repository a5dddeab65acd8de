using System.Runtime.InteropServices;

static class Mouse
{
    [DllImport("user32.dll")]
    public static extern bool SetCursorPos(int x, int y);
}
